// Verifies the webhook on standard input as its receiver would; prints its body.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { Webhook } = createRequire(process.cwd() + '/')('standardwebhooks')

const { secret, body, headers } = JSON.parse(readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify(new Webhook(secret).verify(body, headers)))
