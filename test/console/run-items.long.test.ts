// The page of a run with a thousand items.
import { describeManyItems } from "./many-items.js";

describeManyItems(1_000);
