// Where log lines go: a file descriptor that is written to beside the event loop, one chunk after the other. A log that cannot be written (a
// full disk, a reader that has stalled or gone) costs lines and never the service: they are counted, and the count is logged afterwards.
import fs from "node:fs";

/** Characters that wait for the write before them. Further lines are lost. */
const MOST_WAITING = 1_048_576;
/** Before it is tried again after a failure. */
const PAUSE_MS = 500;

export type Write = (
  fd: number,
  bytes: Uint8Array,
  done: (error: NodeJS.ErrnoException | null, written: number) => void,
) => void;

export class LogOutput {
  /** Lines that were never written, since the start. */
  lost = 0;
  /** Told the number of lines that were lost, when lines can be written again. */
  onRecovery: ((lost: number) => void) | undefined;
  private waiting: string[] = [];
  private size = 0;
  /** Of the lines lost, those that a line of the log has told. */
  private told = 0;
  private writing = false;
  /** A chunk that is tried again after a pause. */
  private paused: Buffer | undefined;
  /** The last line in the file is cut: a failed write had written a part of its chunk. */
  private torn = false;

  constructor(
    private readonly fd: number,
    private readonly writeBytes: Write = fs.write,
  ) {}

  write(line: string): void {
    if (this.size + line.length > MOST_WAITING) {
      this.lost++;
      return;
    }
    this.waiting.push(line);
    this.size += line.length;
    if (!this.writing) this.writeNext();
  }

  /** What still waits when the process ends is written at once, if that is possible. */
  flushNow(): void {
    try {
      if (this.paused) fs.writeSync(this.fd, this.paused);
      if (this.waiting.length > 0) fs.writeSync(this.fd, this.take());
    } catch {
      // The process ends, and there is no other place to say so.
    }
  }

  private writeNext(): void {
    const lines = this.waiting.length;
    this.writing = lines > 0;
    if (this.writing) this.writeChunk(this.take(), lines);
  }

  private take(): Buffer {
    const text = this.waiting.join("");
    this.waiting = [];
    this.size = 0;
    return Buffer.from(this.torn ? `\n${text}` : text);
  }

  private writeChunk(chunk: Buffer, lines: number): void {
    this.writeBytes(this.fd, chunk, (error, written) => {
      if (error?.code === "EAGAIN" || error?.code === "EBUSY") return this.tryLater(chunk, lines);
      if (error) return this.lose(lines);
      const rest = chunk.subarray(written);
      // As many lines are left as there are line breaks.
      const linesLeft = rest.reduce((count, byte) => count + Number(byte === 10), 0);
      this.torn = rest.length > 0;
      if (rest.length > 0) return this.writeChunk(rest, Math.min(lines, linesLeft));
      this.tellLosses();
      this.writeNext();
    });
  }

  private tryLater(chunk: Buffer, lines: number): void {
    this.paused = chunk;
    this.pause(() => {
      this.paused = undefined;
      this.writeChunk(chunk, lines);
    });
  }

  private lose(lines: number): void {
    this.lost += lines;
    this.pause(() => this.writeNext());
  }

  private pause(next: () => void): void {
    // A log that cannot be written keeps no process alive.
    setTimeout(next, PAUSE_MS).unref();
  }

  private tellLosses(): void {
    const lost = this.lost - this.told;
    if (lost === 0) return;
    this.told = this.lost;
    this.onRecovery?.(lost);
  }
}
