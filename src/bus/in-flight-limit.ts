// Bounds what is in transit in one socket or pipe. A peer that does not read (frozen, or far away) costs this much memory at most:
// a message that does not fit is dropped, never queued.
import { MAX_UNSENT_MESSAGES, MAX_UNSENT_SIZE } from "./bus.js";

export class InFlightLimit {
  private messages = 0;
  private size = 0;

  /** False: full, drop the message. True: call `release` when the message is sent or lost. */
  reserve(size: number): boolean {
    if (this.messages >= MAX_UNSENT_MESSAGES || this.size + size > MAX_UNSENT_SIZE) return false;
    this.messages++;
    this.size += size;
    return true;
  }

  release(size: number): void {
    this.messages--;
    this.size -= size;
  }
}
