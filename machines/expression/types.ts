// The types of CEL as values: what `type(x)` gives, and what names such as `int` mean.
import { CelScalar, type CelType, type CelValue, celType, listType, mapType, objectType } from "@bufbuild/cel";
import { Decimal } from "./decimal.js";
import { Optional } from "./optional.js";
import { refuseEncrypted } from "./secrets.js";

const DECIMAL = objectType("decimal");
const OPTIONAL = objectType("optional_type");

const TYPES: ReadonlyMap<string, CelType> = new Map<string, CelType>([
  ...(["INT", "UINT", "DOUBLE", "BOOL", "STRING", "BYTES", "NULL", "TYPE"] as const).map((name): [string, CelType] => [
    CelScalar[name].name,
    CelScalar[name],
  ]),
  ["list", listType(CelScalar.DYN)],
  ["map", mapType(CelScalar.DYN, CelScalar.DYN)],
  ["decimal", DECIMAL],
  ["optional_type", OPTIONAL],
]);

/** Names that mean a type unless the scope has them: the input of a rule may be called `type`. */
export const TYPE_NAMES: ReadonlySet<string> = new Set(TYPES.keys());

export function typeNamed(name: string): CelValue | undefined {
  return TYPES.get(name);
}

export function typeOf(value: CelValue): CelType {
  if (value instanceof Decimal) return DECIMAL;
  if (value instanceof Optional) return OPTIONAL;
  refuseEncrypted([value]);
  return celType(value);
}
