// The look of the interactive page of the API: the colours of the console, over the style of Swagger UI. That style has colours of its own for
// each part, in light only, so all of them are taken away first. No layout is here but that of the header.

/** Those of src/console/style.css: a test compares them. */
const TOKENS = `
:root {
  color-scheme: light dark;
  --ground: light-dark(#ffffff, #14171c);
  --raised: light-dark(#f5f6f8, #1d2128);
  --line: light-dark(#d5d9e0, #363c47);
  --text: light-dark(#1b1f26, #e7eaf0);
  --quiet: light-dark(#576070, #a3acba);
  --accent: light-dark(#2456c8, #8db1ff);
  --accent-ground: light-dark(#e7eefd, #1f2d4d);
  --good: light-dark(#176b3a, #77d69c);
  --good-ground: light-dark(#e2f4e9, #16301f);
  --bad: light-dark(#b3261e, #ff9d94);
  --bad-ground: light-dark(#fdeceb, #3d1c1a);
  --undo: light-dark(#8a4b00, #ffc078);
  --undo-ground: light-dark(#fdf0dd, #3a2810);
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}`;

const BARE = `
body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
.swagger-ui, .swagger-ui * {
  color: inherit !important;
  background-color: transparent !important;
  border-color: var(--line) !important;
  box-shadow: none !important;
  text-shadow: none !important;
  font-family: inherit !important;
}
.swagger-ui svg { fill: currentColor !important; }
.swagger-ui .wrapper { max-width: 75rem; padding: 0 clamp(0.75rem, 2vw, 2rem); }
.swagger-ui :focus:not(:focus-visible) { outline: none !important; }
.swagger-ui :focus-visible { outline: 2px solid var(--accent) !important; outline-offset: 2px; }`;

const PARTS = `
.swagger-ui a, .swagger-ui .info a, .swagger-ui .link { color: var(--accent) !important; }
.swagger-ui .info { margin: 1.25rem 0 0.5rem; }
.swagger-ui .info .title { font-size: 1.5rem; line-height: 1.25; }
.swagger-ui .info .title small { background: var(--raised) !important; border-radius: 6px; padding: 0.1rem 0.4rem; top: 0; vertical-align: middle; }
.swagger-ui .info .title small pre { padding: 0; }
.swagger-ui .opblock-tag { font-size: 1.1rem; }
.swagger-ui .opblock-tag small, .swagger-ui .opblock-summary-description, .swagger-ui .parameter__type,
.swagger-ui .parameter__in, .swagger-ui .prop-format, .swagger-ui .tab li, .swagger-ui .response-control-media-type__accept-message {
  color: var(--quiet) !important;
}
.swagger-ui .opblock { border: 1px solid var(--line); border-radius: 8px; margin: 0 0 0.5rem; }
.swagger-ui .opblock .opblock-summary, .swagger-ui .opblock .opblock-section-header { background: var(--raised) !important; }
.swagger-ui .opblock .opblock-summary { border-radius: 8px; }
.swagger-ui .opblock .opblock-summary-method {
  background: var(--accent-ground) !important; color: var(--accent) !important; border-radius: 6px; min-width: 4.5rem; padding: 0.3rem 0;
}
.swagger-ui .opblock.opblock-post .opblock-summary-method { background: var(--good-ground) !important; color: var(--good) !important; }
.swagger-ui .opblock.opblock-patch .opblock-summary-method { background: var(--undo-ground) !important; color: var(--undo) !important; }
.swagger-ui .opblock.opblock-delete .opblock-summary-method { background: var(--bad-ground) !important; color: var(--bad) !important; }
.swagger-ui .opblock .opblock-summary-path, .swagger-ui .opblock .opblock-summary-path a, .swagger-ui .opblock-tag a { color: var(--text) !important; }
.swagger-ui .opblock .opblock-summary-path, .swagger-ui code, .swagger-ui pre, .swagger-ui pre *, .swagger-ui .model,
.swagger-ui .parameter__name, .swagger-ui textarea.body-param__text { font-family: var(--mono) !important; }
.swagger-ui pre, .swagger-ui .markdown code, .swagger-ui .model-box, .swagger-ui .json-schema-2020-12 {
  background: var(--raised) !important; border-radius: 6px;
}
.swagger-ui .parameter__name.required span, .swagger-ui .parameter__name.required::after,
.swagger-ui table.model tr.property-row .star, .swagger-ui .errors-wrapper h4 { color: var(--bad) !important; }
.swagger-ui pre, .swagger-ui code, .swagger-ui pre * { font-weight: 400 !important; }
/* Shown whole: a box that scrolls cannot be reached by the keyboard, and one that overflows covers what follows it. */
.swagger-ui pre.microlight { max-height: none !important; overflow: visible !important; white-space: pre-wrap !important; }
/* Words stay whole; only what is longer than a line is divided. */
.swagger-ui pre.microlight, .swagger-ui pre.microlight code { word-break: normal !important; overflow-wrap: anywhere; hyphens: none !important; }
.swagger-ui .tab-header .tab-item .opblock-title span::after { background: var(--accent) !important; }
.swagger-ui .info .main > a, .swagger-ui .response-col_links, .swagger-ui .scheme-container { display: none; }
.swagger-ui section.models { border-radius: 8px; }
.swagger-ui .json-schema-2020-12__attribute--primary, .swagger-ui .json-schema-2020-12-property .json-schema-2020-12__title { color: var(--text) !important; }`;

const CONTROLS = `
.swagger-ui input, .swagger-ui select, .swagger-ui textarea {
  background: var(--ground) !important; border: 1px solid var(--line); border-radius: 6px; padding: 0.3rem 0.6rem;
}
.swagger-ui select { appearance: auto; }
.swagger-ui .btn {
  background: var(--raised) !important; border: 1px solid var(--line); border-radius: 6px; font-size: 0.95rem; font-weight: 400;
}
.swagger-ui .btn.execute { background: var(--accent) !important; border-color: var(--accent) !important; color: var(--ground) !important; }
.swagger-ui .btn.cancel { color: var(--bad) !important; border-color: var(--bad) !important; }
/* As wide as it is high, or not there: in a narrow row it would be squashed. */
.swagger-ui .opblock .opblock-summary .view-line-link.copy-to-clipboard { display: none; flex: none; width: 26px; margin: 0 5px; }
.swagger-ui .opblock.is-open .opblock-summary .view-line-link.copy-to-clipboard,
.swagger-ui .opblock .opblock-summary:hover .view-line-link.copy-to-clipboard,
.swagger-ui .opblock .opblock-summary:focus-within .view-line-link.copy-to-clipboard { display: flex; width: 26px; }
.swagger-ui .copy-to-clipboard { background: light-dark(#576070, #363c47) !important; }
.swagger-ui .download-contents { background: var(--ground) !important; border: 1px solid var(--line); }
.swagger-ui .download-contents { height: auto; padding: 0.2rem 0.5rem; }`;

const HEADER = `
.top {
  display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; align-items: baseline;
  padding: 0.6rem clamp(0.75rem, 2vw, 2rem); border-bottom: 1px solid var(--line); background: var(--raised);
}
.top a { color: var(--accent); text-decoration: none; padding: 0.15rem 0; }
.top .brand { font-weight: 700; color: var(--text); flex: 1; }
.top a[aria-current="page"] { border-bottom: 2px solid var(--accent); }`;

export const DOCS_STYLE = `${TOKENS}${BARE}${PARTS}${CONTROLS}${HEADER}
`;
