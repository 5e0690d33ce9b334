// An HTTPS server that says what it was asked: HTTP/2 and HTTP/1.1, on a port of its own choosing.
// Arguments: certificate file, key file, "h1" for HTTP/1.1 alone. Prints its port, then serves until
// its input ends.
const fs = require('fs')
const http2 = require('http2')
const https = require('https')
const crypto = require('crypto')

const [cert, key, only] = process.argv.slice(2)
const options = { cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true }
const create = only === 'h1' ? https.createServer : http2.createSecureServer

const held = [] // answers that have begun, until somebody asks for /release

const server = create(options, (request, response) => {
  const url = new URL(request.url, 'https://origin')
  const digest = crypto.createHash('sha256')
  let length = 0
  request.on('data', (chunk) => {
    length += chunk.length
    digest.update(chunk)
  })
  request.on('error', () => {})
  request.on('end', () => {
    if (url.pathname === '/big') {
      const size = Number(url.searchParams.get('size'))
      response.writeHead(200, { 'content-length': String(size) })
      let sent = 0
      const more = () => {
        while (sent < size) {
          const n = Math.min(65536, size - sent)
          sent += n
          if (!response.write(Buffer.alloc(n, 'b'))) return response.once('drain', more)
        }
        response.end()
      }
      return more()
    }
    if (url.pathname === '/cut') {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('half')
      return setTimeout(() => request.socket.destroy(), 50)
    }
    if (url.pathname === '/hold') {
      response.writeHead(200)
      response.write('held')
      return held.push(response)
    }
    if (url.pathname === '/release') {
      for (const one of held.splice(0)) one.end(' and released')
      return response.end('released')
    }
    if (url.pathname === '/goodbye') {
      response.end('goodbye')
      return request.stream.session.goaway() // takes no new request; those under way go on
    }
    if (url.pathname === '/trailers') {
      response.writeHead(200, { 'x-te': request.headers.te || 'none' })
      response.addTrailers({ 'grpc-status': '7', 'x-last': 'word' })
      return response.end('body')
    }
    const body = JSON.stringify({
      version: request.httpVersion,
      method: request.method,
      url: request.url,
      headers: request.headers,
      raw: request.rawHeaders,
      length,
      sha256: digest.digest('hex'),
    })
    response.writeHead(Number(url.searchParams.get('status') || 200), { 'x-origin': 'origin' })
    response.end(body)
  })
})

// A tunnel that returns what it gets, after a line that names the Authorization it was asked with.
server.on('upgrade', (request, socket) => {
  socket.on('error', () => {})
  const accept = crypto
    .createHash('sha1')
    .update((request.headers['sec-websocket-key'] || '') + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11')
    .digest('base64')
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n${request.headers.authorization}\n`
  )
  socket.pipe(socket)
})
server.on('sessionError', () => {})
server.on('tlsClientError', () => {})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.stdin.on('end', () => process.exit(0)).resume()
