// The kill loop at full strength: two minutes, 60 runs a second. It needs the whole machine.
// @module-tag alone
import { describeKillLoop } from "./kills.js";

describeKillLoop({ lastsMs: 120_000, runsPerSecond: 60, least: { kills: 15, acknowledged: 1_000 } });
