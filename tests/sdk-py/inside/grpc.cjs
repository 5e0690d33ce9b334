// A gRPC service without a library: /t.S/{Unary,Fail,Down,Up,Both}, on the port that is named.
// With a key and a certificate it speaks TLS, and so does HTTP/1.1 on the next port.
const https = require('https')
const http2 = require('http2')
const fs = require('fs')
const [port, key, cert] = process.argv.slice(2)

const frame = (bytes) => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([head, bytes])
}

// Calls each with every message of the stream.
function messages(stream, each, end) {
  let held = Buffer.alloc(0)
  stream.on('data', (data) => {
    held = Buffer.concat([held, data])
    while (held.length >= 5 && held.length >= 5 + held.readUInt32BE(1)) {
      const length = held.readUInt32BE(1)
      each(held.subarray(5, 5 + length))
      held = held.subarray(5 + length)
    }
  })
  stream.on('end', end)
}

const calls = {
  Unary: (stream) => messages(stream, (m) => stream.write(frame(Buffer.from(m).reverse())), () => stream.end()),
  Down: (stream) => messages(stream, (m) => {
    for (let i = 0; i < Number(m); i++) stream.write(frame(Buffer.from(String(i))))
  }, () => stream.end()),
  Up: (stream) => {
    let total = 0
    messages(stream, (m) => { total += m.length }, () => stream.end(frame(Buffer.from(String(total)))))
  },
  Both: (stream) => messages(stream, (m) => stream.write(frame(Buffer.concat([Buffer.from('<'), m, Buffer.from('>')]))),
    () => stream.end()),
}

function serve(stream, headers) {
  const call = calls[headers[':path'].split('/')[2]]
  const head = { ':status': 200, 'content-type': 'application/grpc' }
  if (!call) {
    stream.respond({ ...head, 'grpc-status': '5', 'grpc-message': 'no such thing' }, { endStream: true })
    return
  }
  stream.respond(head, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'x-after': 'the body' }))
  stream.on('error', () => {})
  call(stream)
}

const pair = key && { key: fs.readFileSync(key), cert: fs.readFileSync(cert) }
const server = pair ? http2.createSecureServer(pair) : http2.createServer()
server.on('stream', serve)
server.listen(Number(port), '127.0.0.1', () => {
  if (!pair) return console.log('ready')
  const plain = https.createServer(pair, (request, response) => response.end(`tls ${request.url}`))
  plain.listen(Number(port) + 1, '127.0.0.1', () => console.log('ready'))
})
