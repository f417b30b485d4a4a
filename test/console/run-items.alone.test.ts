// The page of a run with ten thousand items. They take the service and the browser half a minute of a whole machine.
import { describeManyItems } from "./many-items.js";

describeManyItems(10_000);
