// Reads each payment request of the JSON array on standard input as a facilitator that keeps a
// catalog does; prints the array of what it would list, null where it would list nothing.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { extractDiscoveryInfo } = createRequire(process.cwd() + '/')('@x402/extensions/bazaar')

const requests = JSON.parse(readFileSync(0, 'utf8'))
const listed = requests.map(({ paymentPayload, paymentRequirements }) =>
  extractDiscoveryInfo(paymentPayload, paymentRequirements))
process.stdout.write(JSON.stringify(listed))
