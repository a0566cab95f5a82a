// An OpenID Connect issuer on loopback, for as long as standard input is open. Prints its address.
// Each client of the JSON object on the first line of its input gets access tokens with the claims
// that it names there.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const found = createRequire(process.cwd() + '/').resolve('oidc-provider')
const { Provider } = await import(pathToFileURL(found))

const lines = createInterface({ input: process.stdin })
const { audience, clients, jwks } = JSON.parse((await lines[Symbol.asyncIterator]().next()).value)

const server = createServer()
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${server.address().port}`

const provider = new Provider(issuer, {
  jwks,
  clients: Object.keys(clients).map(id => ({
    client_id: id,
    client_secret: `secret-of-${id}`,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: []
  })),
  cookies: { keys: ['not used'] },
  extraTokenClaims: (_context, token) => clients[token.clientId],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:barograph',
      getResourceServerInfo: (_context, _resource, client) => ({
        scope: 'read',
        audience,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: client.clientId.startsWith('es') ? 'ES256' : 'RS256' } }
      })
    }
  }
})
server.on('request', provider.callback())
process.stdin.on('end', () => process.exit(0))
process.stdout.write(issuer + '\n')
