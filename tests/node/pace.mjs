// For each line on standard input, a JSON array of badges: draws them all, and prints how many
// milliseconds that took.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const { makeBadge } = createRequire(process.cwd() + '/')('badge-maker')

for await (const line of createInterface({ input: process.stdin })) {
  const badges = JSON.parse(line)
  let length = 0
  const begun = performance.now()
  for (const badge of badges) length += makeBadge(badge).length
  const spent = performance.now() - begun
  if (length === 0) throw new Error('nothing was drawn')
  console.log(spent)
}
