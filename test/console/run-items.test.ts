// The page of a run with a thousand items.
// @module-tag long
import { describeManyItems } from "./many-items.js";

describeManyItems(1_000);
