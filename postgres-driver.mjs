// Mends the Postgres driver where it is installed, before the service is bundled and tests load it. To be removed with the release that has all of it.
// What goes wrong in postgres 3.4.9:
// - A session that is lost keeps what it was about to write and the statements that it was at. On the next session, the first of them throws where
//   nothing can catch it and ends the process, or a statement gets the error of another one, or none gets an answer any more, or a result begins with
//   as many empty rows as had come before (porsager/postgres#1154, #1208, #1142).
// - A transaction whose session is lost goes on: its next statements run on the next session, in nobody's transaction or in another's (#1216).
// - A pool that has ended opens a session again for a statement that had waited, and keeps it.
// - A session that is opened to be reserved is never handed over, unless the driver asks for the types of arrays first.
// - A transaction that begins behind as many statements as a session takes does not get the session for itself: others' statements run in it (#1189).
// - Of several hosts, `read-write` takes a standby, whose default is to write. Where no host is what was asked for, the hosts are asked again and
//   again without a pause, and the statement gets no answer.
// - Node verifies the certificate of a server whose host is an address for the name `localhost`, because the driver does not say the host.
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

const SOURCES = join(import.meta.dirname, "node_modules/postgres/src");

const MENDS = {
  "connection.js": [
    ["    , hostIndex = 0\n", "    , hostIndex = 0\n    , unfit = 0\n"],
    [
      "      servername: net.isIP(socket.host) ? undefined : socket.host\n",
      "      servername: net.isIP(socket.host) ? undefined : socket.host,\n      host: socket.host\n",
    ],
    [
      `        else if (tryNext(target_session_attrs, backendParameters))
          return terminate()
`,
      `        else if (tryNext(target_session_attrs, backendParameters)) {
          if (++unfit >= options.host.length) {
            unfit = 0
            errored(Errors.connection('CONNECTION_DESTROYED', options))
          }
          return terminate()
        }
        unfit = 0
`,
    ],
    [
      "      (x === 'read-write' && xs.default_transaction_read_only === 'on') ||\n",
      "      (x === 'read-write' && (xs.default_transaction_read_only === 'on' || xs.in_hot_standby === 'on')) ||\n",
    ],
    [
      "    incomings = null\n    clearImmediate(nextWriteTimer)\n",
      "    incomings = null\n    clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n",
    ],
    [
      "    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n",
      `    if (query || sent.length) error(Errors.connection('CONNECTION_CLOSED', options, socket))
    query = results = errorResponse = null
    result = new Result()
    rows = 0
`,
    ],
    [
      `      return write(toBuffer(q))
        && !q.describeFirst
        && !q.cursorFn
        && sent.length < max_pipeline
        && (!q.options.onexecute || q.options.onexecute(connection))
`,
      `      const takesMore = write(toBuffer(q))
      if (q.options.onexecute) return q.options.onexecute(connection)
      return takesMore
        && !q.describeFirst
        && !q.cursorFn
        && sent.length < max_pipeline
`,
    ],
    [
      `      initial && !initial.reserve && execute(initial)
      options.shared.retries = retries = 0
      initial = null
      return
`,
      `      const { reserve } = initial
      reserve || execute(initial)
      options.shared.retries = retries = 0
      initial = null
      return reserve && onopen(connection)
`,
    ],
  ],
  "index.js": [
    [
      "    if (queries.length === 0)\n      return move(c, open)\n",
      "    if (queries.length === 0)\n      return ending ? c.end() : move(c, open)\n",
    ],
    ["    let savepoints = 0\n      , connection\n", "    let savepoints = 0\n      , connection\n      , lost\n"],
    [
      "        new Promise((_, reject) => connection.onclose = reject)\n",
      `        new Promise((_, reject) => connection.onclose = e => {
          lost = e
          while (queries.length) queries.shift().reject(e)
          reject(e)
        })
`,
    ],
    [
      "        q.catch(e => uncaughtError || (uncaughtError = e))\n",
      "        q.catch(e => uncaughtError || (uncaughtError = e))\n        if (lost) return q.reject(lost)\n",
    ],
  ],
};

/** Does nothing to a mended driver. Throws if the driver is another one: it was updated, and this must be looked at. */
export async function mendDriver() {
  for (const [name, mends] of Object.entries(MENDS)) await mendFile(join(SOURCES, name), mends);
}

async function mendFile(path, mends) {
  const text = await readFile(path, "utf8");
  const mended = mends.reduce((part, [fault, repair]) => {
    if (part.includes(repair)) return part;
    if (part.split(fault).length !== 2)
      throw new Error(`postgres-driver.mjs does not fit this driver (npm ci installs the right one): ${fault}`);
    return part.replace(fault, () => repair);
  }, text);
  if (mended === text) return;
  // Whoever reads it at this moment reads the whole of the one or of the other.
  const written = `${path}.${process.pid}`;
  await writeFile(written, mended);
  await rename(written, path);
}
