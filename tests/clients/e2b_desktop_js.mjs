// @e2b/desktop: a screen with XFCE, mouse and keyboard, windows, a browser, and the stream.

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from '@e2b/desktop'
import { run, step } from './steps.mjs'

const SIZE = { width: 1024, height: 768 } // what the package asks for by itself
const WAIT_MS = 60_000
const BACKGROUND_BYTES = 50_000 // a picture without it has a fifth of that
const PAGE = "<title>atoll page</title><body style='background:#0a7'><h1>served inside</h1>"

async function until(condition, what) {
  for (const deadline = Date.now() + WAIT_MS; ; await sleep(300)) {
    const found = await condition()
    if (found) return found
    assert.ok(Date.now() < deadline, `still not so after ${WAIT_MS / 1000} s: ${what}`)
  }
}

// DESKTOP_PICTURES keeps it.
async function picture(desktop, name) {
  const png = Buffer.from(await desktop.screenshot())
  assert.equal(png.subarray(1, 4).toString(), 'PNG')
  if (process.env.DESKTOP_PICTURES) await writeFile(join(process.env.DESKTOP_PICTURES, `${name}-js.png`), png)
  return { png, width: png.readUInt32BE(16), height: png.readUInt32BE(20) }
}

// xdotool fails where there are none.
const windows = (desktop, name) => desktop.getApplicationWindows(name).catch(() => []).then((ids) => ids.filter(Boolean))

function titled(desktop, application, title) {
  return until(async () => {
    for (const id of await windows(desktop, application)) {
      if ((await desktop.getWindowTitle(id)).includes(title)) return id
    }
  }, `${application} shows ${title}`)
}

async function screen(desktop) {
  assert.deepEqual(await desktop.getScreenSize(), SIZE)
  await until(async () => (await windows(desktop, 'xfce4-panel')).length, 'the panel is there')
  await until(async () => (await picture(desktop, 'desktop')).png.length > BACKGROUND_BYTES, 'the background is drawn')
  const { width, height } = await picture(desktop, 'desktop')
  assert.deepEqual({ width, height }, SIZE)
}

async function mouse(desktop) {
  await desktop.moveMouse(500, 400)
  assert.deepEqual(await desktop.getCursorPosition(), { x: 500, y: 400 })
  const before = (await picture(desktop, 'before-menu')).png
  await desktop.rightClick()
  await until(async () => !before.equals((await picture(desktop, 'menu')).png), 'a menu is shown')
  await desktop.press('escape')
  await desktop.leftClick(300, 300)
  await desktop.doubleClick(5, SIZE.height - 100)
  await desktop.middleClick(300, 310)
  await desktop.press('escape')
  await desktop.scroll('down', 2)
  await desktop.drag([300, 300], [400, 400])
  assert.deepEqual(await desktop.getCursorPosition(), { x: 400, y: 400 })
  await desktop.wait(10)
}

async function keyboard(desktop) {
  await desktop.files.write('/home/user/note.txt', '')
  await desktop.open('/home/user/note.txt')
  const id = await titled(desktop, 'mousepad', 'note.txt')
  await desktop.commands.run(`xdotool windowactivate --sync ${id}`)
  assert.match(await desktop.getWindowTitle(await desktop.getCurrentWindowId()), /note\.txt/)
  const text = "typed by the client: 'quotes', $dollars & ümlauts"
  await desktop.write(text)
  await desktop.press(['ctrl', 's'])
  await until(async () => (await desktop.files.read('/home/user/note.txt')).trim() === text, 'what was typed is in the file')
  await desktop.press(['ctrl', 'q'])
}

async function browser(desktop) {
  await desktop.files.write('/home/user/web/page.html', PAGE)
  await desktop.commands.run('cd ~/web && exec python3 -m http.server 8000 2>~/web.log', { background: true })
  await until(async () => (await desktop.commands.run('curl -s localhost:8000/page.html || true')).stdout.includes('served'), 'a page is served')
  await desktop.launch('firefox', 'http://localhost:8000/page.html?launched')
  await titled(desktop, 'firefox', 'atoll page')
  await until(async () => (await desktop.files.read('/home/user/web.log')).includes('?launched'), 'the page was asked for')
  await picture(desktop, 'firefox')
}

// ---- the stream ----

// The request's options for the stream's port: by name over TLS, or by header.
function door(desktop, path) {
  if (!process.env.E2B_SANDBOX_URL) {
    const { hostname, port } = new URL(`https://${desktop.getHost(6080)}/`)
    return [https, { host: '127.0.0.1', port: port || 443, servername: hostname, path, headers: { Host: desktop.getHost(6080) } }]
  }
  const { hostname, port } = new URL(process.env.E2B_SANDBOX_URL)
  return [http, { host: hostname, port, path, headers: { 'E2b-Sandbox-Id': desktop.sandboxId, 'E2b-Sandbox-Port': '6080' } }]
}

function get(desktop, path) {
  const [agent, options] = door(desktop, path)
  return new Promise((resolve, reject) => {
    agent.get(options, async (answer) => {
      const parts = []
      for await (const part of answer) parts.push(part)
      resolve({ status: answer.statusCode, text: Buffer.concat(parts).toString() })
    }).on('error', reject)
  })
}

// What the server of the screen says first, over a WebSocket.
function greeting(desktop) {
  const [agent, options] = door(desktop, '/websockify')
  Object.assign(options.headers, {
    Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': Buffer.from('sixteen bytes ok').toString('base64'), 'Sec-WebSocket-Protocol': 'binary',
  })
  return new Promise((resolve, reject) => {
    const request = agent.request(options)
    request.on('error', reject)
    request.on('response', (answer) => reject(new Error(`not upgraded: ${answer.statusCode}`)))
    request.on('upgrade', (_, socket, head) => {
      const told = (data) => {
        resolve(data.subarray(2).toString())
        socket.destroy()
      }
      if (head.length > 2) told(head)
      else socket.once('data', told)
      socket.once('close', () => reject(new Error('the stream ended')))
    })
    request.end()
  })
}

async function stream(desktop) {
  await desktop.stream.start({ requireAuth: true })
  const key = desktop.stream.getAuthKey()
  const url = new URL(desktop.stream.getUrl({ authKey: key }))
  assert.ok(url.host.startsWith('6080-') && url.search.includes(key), String(url))
  const page = await get(desktop, url.pathname + url.search)
  assert.equal(page.status, 200)
  assert.match(page.text, /noVNC/)
  assert.match(await greeting(desktop), /^RFB 003\.008\n/)
  await assert.rejects(desktop.stream.start())
  await desktop.stream.stop()
}

await run(async () => {
  const desktop = await step('create', () => Sandbox.create({ timeoutMs: 600_000 }))
  if (!desktop) return
  try {
    for (const call of [screen, mouse, keyboard, browser, stream]) await step(call.name, call, desktop)
  } finally {
    await desktop.kill()
  }
})
