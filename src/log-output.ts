// Where log lines go: a file descriptor that is written to in chunks, one after the other, without holding up the event loop. A log that cannot
// be written (a full disk, a reader that has stalled or gone) costs lines and never the service: they are counted, and the count is logged
// afterwards.
import fs from "node:fs";

/** Characters that wait for the write before them. Further lines are lost. */
const MOST_WAITING = 1_048_576;
/** The pause after a failure, and at most after a full pipe. */
const PAUSE_MS = 500;
/** The first pause after a full pipe, which its reader may empty at once. Each further one is twice as long. */
const FULL_PIPE_MS = 5;
/** Bytes that a pipe takes in one piece: between longer ones of several processes there is no order. POSIX grants 512, Linux 4,096. */
const PIPE_BYTES = process.platform === "linux" ? 4_096 : 512;
/** How long a process that ends gives the reader of a full pipe. */
const GRACE_MS = 1_000;

export type Write = (
  fd: number,
  bytes: Uint8Array,
  done: (error: NodeJS.ErrnoException | null, written: number) => void,
) => void;

interface Writing {
  readonly writeBytes?: Write;
  /** The most bytes of a chunk, unless one line has more. */
  readonly chunkBytes?: number;
  /** A write may wait for a reader without end. */
  readonly mayBlock?: boolean;
}

export class LogOutput {
  /**
   * The output to a descriptor of this process. A pipe is opened once more, without blocking: a write that waits for a reader holds a thread,
   * and the end of the process waits for its threads. A file is written to by a thread, because its disk may be slow.
   */
  static to(fd: number): LogOutput {
    const stats = fs.fstatSync(fd);
    if (stats.isFile()) return new LogOutput(fd);
    const own = stats.isFIFO() ? unblocked(fd) : undefined;
    if (own === undefined) return new LogOutput(fd, { chunkBytes: PIPE_BYTES, mayBlock: true });
    return new LogOutput(own, { chunkBytes: PIPE_BYTES, writeBytes: writeNow });
  }

  /** Lines that were never written, since the start. */
  lost = 0;
  /** Called with the number of lines that were lost, when lines can be written again. */
  onRecovery: ((lost: number) => void) | undefined;
  private waiting: string[] = [];
  private size = 0;
  /** The lost lines that a line of the log has reported. */
  private reported = 0;
  private writing = false;
  /** A chunk that is tried again after a pause. */
  private paused: Buffer | undefined;
  private pauseMs = FULL_PIPE_MS;
  private readonly writeBytes: Write;
  private readonly chunkBytes: number;
  private readonly mayBlock: boolean;
  /** The last line in the file is cut: a failed write had written a part of its chunk. */
  private torn = false;

  constructor(
    private readonly fd: number,
    { writeBytes = fs.write, chunkBytes = Number.POSITIVE_INFINITY, mayBlock = false }: Writing = {},
  ) {
    this.writeBytes = writeBytes;
    this.chunkBytes = chunkBytes;
    this.mayBlock = mayBlock;
  }

  write(line: string): void {
    if (this.size + line.length > MOST_WAITING) {
      this.lost++;
      return;
    }
    this.waiting.push(line);
    this.size += line.length;
    if (!this.writing) this.writeNext();
  }

  /** What still waits when the process ends is written at once, as far as that cannot hold up its end. */
  flushNow(): void {
    // A thread writes the chunk that is under way. If that waits for its reader, so would this.
    if (this.mayBlock && this.writing && !this.paused) return;
    const until = performance.now() + GRACE_MS;
    for (let chunk = this.paused ?? this.take().bytes; chunk.length > 0; chunk = this.take().bytes)
      if (!writeWhole(this.fd, chunk, until)) return;
  }

  private writeNext(): void {
    const { bytes, lines } = this.take();
    this.writing = lines > 0;
    if (this.writing) this.writeChunk(bytes, lines);
  }

  /** Takes as many of the lines that wait as are one chunk. */
  private take(): { readonly bytes: Buffer; readonly lines: number } {
    let [lines, bytes] = [0, this.torn ? 1 : 0];
    for (const line of this.waiting) {
      bytes += Buffer.byteLength(line);
      if (lines > 0 && bytes > this.chunkBytes) break;
      lines++;
    }
    const text = this.waiting.splice(0, lines).join("");
    this.size -= text.length;
    return { bytes: Buffer.from(this.torn && lines > 0 ? `\n${text}` : text), lines };
  }

  private writeChunk(chunk: Buffer, lines: number): void {
    this.writeBytes(this.fd, chunk, (error, written) => {
      if (error?.code === "EAGAIN" || error?.code === "EBUSY") return this.tryLater(chunk, lines);
      if (error) return this.lose(lines);
      this.pauseMs = FULL_PIPE_MS;
      const rest = chunk.subarray(written);
      // As many lines are left as there are line breaks.
      const linesLeft = rest.reduce((count, byte) => count + Number(byte === 10), 0);
      this.torn = rest.length > 0;
      if (rest.length > 0) return this.writeChunk(rest, Math.min(lines, linesLeft));
      this.reportLosses();
      this.writeNext();
    });
  }

  private tryLater(chunk: Buffer, lines: number): void {
    this.paused = chunk;
    this.pause(this.pauseMs, () => {
      this.paused = undefined;
      this.writeChunk(chunk, lines);
    });
    this.pauseMs = Math.min(2 * this.pauseMs, PAUSE_MS);
  }

  private lose(lines: number): void {
    this.lost += lines;
    this.pause(PAUSE_MS, () => this.writeNext());
  }

  private pause(ms: number, next: () => void): void {
    // A log that cannot be written keeps no process alive.
    setTimeout(next, ms).unref();
  }

  private reportLosses(): void {
    const lost = this.lost - this.reported;
    if (lost === 0) return;
    this.reported = this.lost;
    this.onRecovery?.(lost);
  }
}

/** The same pipe, opened in another way. Undefined: the system has no such way, or does not allow it. */
function unblocked(fd: number): number | undefined {
  try {
    return fs.openSync(`/proc/self/fd/${fd}`, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
}

const writeNow: Write = (fd, bytes, done) => {
  try {
    done(null, fs.writeSync(fd, bytes));
  } catch (error) {
    done(error as NodeJS.ErrnoException, 0);
  }
};

const SLEEPING = new Int32Array(new SharedArrayBuffer(4));

/** False: it could not be written, in time or at all. The process ends, and there is no other place to say so. */
function writeWhole(fd: number, bytes: Buffer, until: number): boolean {
  for (let rest = bytes; ; ) {
    try {
      rest = rest.subarray(fs.writeSync(fd, rest));
      if (rest.length === 0) return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || performance.now() >= until) return false;
      // The event loop runs no more.
      Atomics.wait(SLEEPING, 0, 0, FULL_PIPE_MS);
    }
  }
}
