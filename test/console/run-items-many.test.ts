// The page of a run with ten thousand items. They take the service and the browser half a minute of a whole machine.
// @module-tag alone
import { describeManyItems } from "./many-items.js";

describeManyItems(10_000);
