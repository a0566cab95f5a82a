// Several clients of the TypeScript SDK at once, of each protocol era that the JSON object on
// standard input names. Each lists the tools and makes every call of that object. Prints what each
// client saw; a call that the server refused is its code and message.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const found = createRequire(process.cwd() + '/')('@modelcontextprotocol/client')
const { Client, StreamableHTTPClientTransport } = found

const { url, eras, clients, calls } = JSON.parse(readFileSync(0, 'utf8'))

async function answer(client, call) {
  try {
    const { content, structuredContent, isError = false } = await client.callTool(call)
    return { structuredContent, isError, text: content.map(({ text }) => text).join('') }
  } catch (error) {
    return { code: error.code, message: error.message }
  }
}

async function visit(mode) {
  const versionNegotiation = { mode: mode === 'legacy' ? mode : { pin: mode } }
  const client = new Client({ name: 'stranger', version: '1' }, { versionNegotiation })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const { tools } = await client.listTools()
  const answers = []
  for (const call of calls) answers.push(await answer(client, call))
  const seen = {
    era: mode,
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    tools,
    answers
  }
  await client.close()
  return seen
}

const visits = eras.flatMap(era => Array.from({ length: clients }, () => visit(era)))
process.stdout.write(JSON.stringify(await Promise.all(visits)))
