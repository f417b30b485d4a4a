// Opens an address in the browser of the person who runs the demo. It tells nothing of how that went: the address is printed as well, and
// a machine may have no browser.
import { spawn } from "node:child_process";

const OPENERS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  // The first argument in quotes would be a title.
  win32: ["cmd", "/c", "start", ""],
};

export function openInBrowser(address: string): void {
  const [program = "xdg-open", ...args] = OPENERS[process.platform] ?? [];
  const opener = spawn(program, [...args, address], { stdio: "ignore", detached: true });
  opener.once("error", () => {});
  opener.unref();
}
