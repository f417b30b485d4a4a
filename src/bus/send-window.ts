// How much may be under way in one socket or pipe. A peer that does not read (frozen, or far away) costs this much memory and
// no more: what does not fit is dropped, never queued.
import { MAX_UNSENT_MESSAGES, MAX_UNSENT_SIZE } from "./bus.js";

export class Window {
  private messages = 0;
  private size = 0;

  /** False: no room, drop it. True: give it back when it has gone, or is lost. */
  take(size: number): boolean {
    if (this.messages >= MAX_UNSENT_MESSAGES || this.size + size > MAX_UNSENT_SIZE) return false;
    this.messages++;
    this.size += size;
    return true;
  }

  giveBack(size: number): void {
    this.messages--;
    this.size -= size;
  }
}
