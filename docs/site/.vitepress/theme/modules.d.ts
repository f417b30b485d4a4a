// What the theme imports that is no TypeScript. The types are those that it uses, and no more.
declare module "*.css";

declare module "@mermaid-js/tiny/dist/mermaid.tiny.js?url" {
  /** Its address on the site. */
  const url: string;
  export default url;
}
