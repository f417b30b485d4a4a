// Shared by the steps that send HTTP: URLs and headers, and their checks. Which addresses are allowed depends on name resolution
// and is checked by the shell.
import { type Kind, object, text } from "../attribute/kinds.js";
import { asText, ExpressionError, type Scope, type Template } from "../expression/index.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { isSecret, SECRET, type SecretText, spread } from "../values/secret.js";
import { isLongerThan } from "../values/text.js";
import { objectOf } from "./step.js";

const MAX_URL_CHARS = 8_192;
const MAX_HEADERS = 100;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
/** Tabs, printable ASCII and Latin-1. */
const HEADER_VALUE = /^[\t\x20-\x7e\u0080-\u00ff]*$/;
/** Headers of the transport, of idempotency and of signatures: a workflow cannot set them. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...["connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "proxy-authorization"],
  ...["proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["webhook-id", "webhook-timestamp", "webhook-signature"],
]);

export const url: Kind<Template> = {
  ...text,
  parse(raw, place) {
    const template = text.parse(raw, place);
    const fault = template?.constant ? urlFault(String(template.render({}))) : undefined;
    return fault === undefined ? template : place.problem(fault);
  },
};

export const headers: Kind<Template> = {
  ...object,
  parse(raw, place) {
    let valid = true;
    for (const name of isObject(raw) ? Object.keys(raw) : []) {
      const fault = headerFault(name);
      if (fault !== undefined) valid = Boolean(place.at(name).problem(fault));
    }
    const template = object.parse(raw, place);
    return valid ? template : undefined;
  },
};

/** Secret if it depends on a secret value. */
export function urlOf(template: Template, scope: Scope): SecretText {
  const rendered = template.render(scope);
  const url = plainText(rendered);
  if (url === undefined) throw new ExpressionError("url must be a string");
  const fault = urlFault(url);
  if (fault !== undefined) throw new ExpressionError(`url ${fault}`);
  return rendered as SecretText;
}

/** Names become lower case; null leaves a header out. */
export function headersOf(template: Template | undefined, scope: Scope): Record<string, SecretText> {
  const given = spread(objectOf(template, scope, "headers")) as JsonObject;
  const entries = Object.entries(given).filter(([, value]) => value !== null);
  if (entries.length > MAX_HEADERS) throw new ExpressionError(`there are more than ${MAX_HEADERS} headers`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const isText = typeof value !== "object" || (isSecret(value) && typeof value[SECRET] !== "object");
      const fault = headerFault(name) ?? (isText ? undefined : "must be a string");
      if (fault !== undefined) throw new ExpressionError(`headers.${name} ${fault}`);
      const line = asText(value);
      if (!HEADER_VALUE.test(line))
        throw new ExpressionError(`headers.${name} has characters that a header cannot carry`);
      return [name.toLowerCase(), isSecret(value) ? { [SECRET]: line } : line];
    }),
  );
}

/** The text, whether it is secret or not. */
export function plainText(value: Json | SecretText): string | undefined {
  const plain = isSecret(value as Json) ? (value as { readonly [SECRET]: Json })[SECRET] : value;
  return typeof plain === "string" ? plain : undefined;
}

function urlFault(url: string): string | undefined {
  if (isLongerThan(url, MAX_URL_CHARS)) return `is longer than ${MAX_URL_CHARS} characters`;
  if (!/^https?:\/\/[^/?#]/i.test(url)) return "must begin with http:// or https://";
  if (/\s/.test(url)) return "must not contain spaces or line breaks";
  if (/^https?:\/\/[^/?#]*@/i.test(url)) return "must not contain credentials: use secret_ref";
  return undefined;
}

function headerFault(name: string): string | undefined {
  if (!HEADER_NAME.test(name)) return "is not a header name";
  return OWN_HEADERS.has(name.toLowerCase()) ? "is set by the service" : undefined;
}
