// The interactive page of the API: Swagger UI as ours, with a header that leads to the console, and without its own bar. The document that it
// shows is made in openapi.ts.
import type { FastifySwaggerUiOptions } from "@fastify/swagger-ui";
import { DOCS_STYLE } from "./docs-style.js";

export const DOCS_PATH = "/docs";

/** A page of this service only. Swagger UI draws its icons as data. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A step that goes on, and the way back. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2456c8"/>
<path d="M8 12h13l-4-4m4 4-4 4M24 21H11l4-4m-4 4 4 4" fill="none" stroke="#fff" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round"/></svg>`;

/** Runs in the page. It adds the header of the console, and the width of a phone, which the page of Swagger UI does not know. */
const header = (hasConsole: boolean) => `
const make = (name, members, ...children) => {
  const element = Object.assign(document.createElement(name), members);
  element.append(...children);
  return element;
};
const nav = make("nav", { className: "top", ariaLabel: "Pages" },
  ${hasConsole ? 'make("a", { href: "/console", className: "brand" }, "Sagas")' : 'make("span", { className: "brand" }, "Sagas")'},
  make("a", { href: "${DOCS_PATH}", ariaCurrent: "page" }, "API"),
  make("a", { href: "/openapi.json" }, "openapi.json"));
document.body.prepend(make("header", {}, nav));
document.head.append(make("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
`;

export function docsPage({ hasConsole }: { readonly hasConsole: boolean }): FastifySwaggerUiOptions {
  return {
    routePrefix: DOCS_PATH,
    staticCSP: POLICY,
    logo: { type: "image/svg+xml", content: Buffer.from(ICON) },
    theme: {
      title: "Sagas: the API",
      css: [{ filename: "docs.css", content: DOCS_STYLE }],
      js: [{ filename: "docs.js", content: header(hasConsole) }],
      favicon: [{ filename: "icon.svg", rel: "icon", type: "image/svg+xml", sizes: "any", content: ICON }],
    },
    // The base layout has no bar.
    uiConfig: {
      layout: "BaseLayout",
      docExpansion: "list",
      defaultModelsExpandDepth: -1,
      tryItOutEnabled: false,
    },
  };
}
