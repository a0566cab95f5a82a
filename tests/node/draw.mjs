// Draws every badge of the JSON array on standard input; prints the array of their SVG texts.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { makeBadge } = createRequire(process.cwd() + '/')('badge-maker')

const badges = JSON.parse(readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify(badges.map(badge => makeBadge(badge))))
