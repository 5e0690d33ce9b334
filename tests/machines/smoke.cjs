// A sandbox's life through the official JavaScript SDK. Prints one line when all went well.
const assert = require('assert')
const path = require('path')
const { createRequire } = require('module')
const { Sandbox } = createRequire(path.join(__dirname, '../sdk-js/'))('e2b')

const requestTimeoutMs = 600_000

async function main() {
  const sandbox = await Sandbox.create({ timeoutMs: 3_600_000, requestTimeoutMs })
  try {
    const run = (command) => sandbox.commands.run(command, { timeoutMs: requestTimeoutMs, requestTimeoutMs })
    assert.equal((await run('echo $((6 * 7))')).stdout, '42\n')
    await sandbox.files.write('/home/user/note.txt', 'kept')
    assert.equal(await sandbox.files.read('/home/user/note.txt'), 'kept')
    await sandbox.pause()
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 3_600_000, requestTimeoutMs })
    assert.equal(await again.files.read('/home/user/note.txt'), 'kept')
  } finally {
    await Sandbox.kill(sandbox.sandboxId, { requestTimeoutMs })
  }
  console.log('create, command, files, pause, resume, kill')
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
