// Shared by the steps that send HTTP: URLs and headers, and their checks. Which addresses are allowed depends on name resolution
// and is checked by the shell.
import { type Kind, object, text } from "../attribute/kinds.js";
import { asText, ExpressionError, type Scope, type Template } from "../expression/index.js";
import { isObject } from "../values/json.js";
import { isLongerThan } from "../values/text.js";
import { objectOf, textOf } from "./step.js";

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

export function urlOf(template: Template, scope: Scope): string {
  const rendered = textOf(template, scope, "url");
  const fault = urlFault(rendered);
  if (fault !== undefined) throw new ExpressionError(`url ${fault}`);
  return rendered;
}

/** Names become lower case; null leaves a header out. */
export function headersOf(template: Template | undefined, scope: Scope): Record<string, string> {
  const entries = Object.entries(objectOf(template, scope, "headers")).filter(([, value]) => value !== null);
  if (entries.length > MAX_HEADERS) throw new ExpressionError(`there are more than ${MAX_HEADERS} headers`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const fault = headerFault(name) ?? (typeof value === "object" ? "must be a string" : undefined);
      if (fault !== undefined) throw new ExpressionError(`headers.${name} ${fault}`);
      const line = asText(value);
      if (!HEADER_VALUE.test(line))
        throw new ExpressionError(`headers.${name} has characters that a header cannot carry`);
      return [name.toLowerCase(), line];
    }),
  );
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
