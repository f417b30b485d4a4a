// The kill loop for twelve seconds, on a machine that has other work.
// @module-tag long
// @access both
import { describeKillLoop } from "./kills.js";

describeKillLoop({ lastsMs: 12_000, runsPerSecond: 30, least: { kills: 2, acknowledged: 60 } });
