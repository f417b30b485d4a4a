// What rehearsals and checks begin with. The declarations that are shipped must not reach this file: it names the machine.
import { Schemas } from "../../../../machines/index.js";

export const schemas = new Schemas();

/** Of a saga that `define` has made, too. */
export const documentOf = (given: object): object =>
  "toJSON" in given && typeof given.toJSON === "function" ? (given.toJSON() as object) : given;
