// URI references as schemas name each other by them, resolved as text (RFC 3986, section 5). Nothing is fetched.

/** Scheme, authority, path, query, fragment: the regular expression of RFC 3986, appendix B. */
const PARTS = /^(?:([^:/?#]+):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#([\s\S]*))?$/;

export interface Located {
  /** The URI without its fragment. */
  readonly uri: string;
  /** The fragment as it was written; empty if there is none. */
  readonly fragment: string;
}

export interface UriParts {
  readonly scheme?: string;
  readonly authority?: string;
  readonly path: string;
  readonly query?: string;
  readonly fragment?: string;
}

export function partsOf(text: string): UriParts {
  const [, scheme, authority, path = "", query, fragment] = PARTS.exec(text) ?? [];
  return { scheme, authority, path, query, fragment };
}

/** Where a reference leads from a base. */
export function locate(reference: string, base: string): Located {
  const { scheme, authority, path, query, fragment = "" } = partsOf(reference);
  if (scheme !== undefined) return { uri: written(scheme, authority, withoutDots(path), query), fragment };
  const from = partsOf(base);
  if (authority !== undefined) return { uri: written(from.scheme, authority, withoutDots(path), query), fragment };
  if (path === "") return { uri: written(from.scheme, from.authority, from.path, query ?? from.query), fragment };
  const merged = path.startsWith("/") ? path : beside(path, from.path, from.authority !== undefined);
  return { uri: written(from.scheme, from.authority, withoutDots(merged), query), fragment };
}

const written = (scheme: string | undefined, authority: string | undefined, path: string, query: string | undefined) =>
  `${scheme === undefined ? "" : `${scheme.toLowerCase()}:`}${authority === undefined ? "" : `//${authority.toLowerCase()}`}${path}${query === undefined ? "" : `?${query}`}`;

function beside(path: string, basePath: string, hasAuthority: boolean): string {
  if (hasAuthority && basePath === "") return `/${path}`;
  return basePath.slice(0, basePath.lastIndexOf("/") + 1) + path;
}

function withoutDots(path: string): string {
  if (!path.includes(".")) return path;
  const kept: string[] = [];
  const segments = path.split("/");
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1;
    if (segment === "..") {
      if (kept.length > 1 || (kept.length === 1 && kept[0] !== "")) kept.pop();
      if (isLast) kept.push("");
    } else if (segment === ".") {
      if (isLast) kept.push("");
    } else kept.push(segment);
  }
  return kept.join("/");
}
