// What the service has, as it says in the page that it sent: for what no route of the API says.

const said = (): DOMStringMap | undefined => document.getElementById("console")?.dataset;

/** Whether it shows runs in a Stately inspector. */
export const hasInspector = (): boolean => said()?.inspector !== undefined;

/** `key`: by an API key. `oidc`: at the issuer of logins. */
export type Way = "key" | "oidc";

/** The ways to log in. Undefined: access is off. None: tokens only, which no browser sends. */
export function waysIn(): ReadonlySet<Way> | undefined {
  const ways = said()?.login;
  return ways === undefined
    ? undefined
    : new Set(ways.split(" ").filter((way): way is Way => /^(key|oidc)$/.test(way)));
}
