// The theme: that of VitePress with diagrams, a link from each page to its Markdown, and colours of its own. It changes no text.
import { type Theme, useData, withBase } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { defineComponent, h } from "vue";
import { Diagram } from "./diagram.js";
import "./style.css";

const MarkdownLink = defineComponent(() => {
  const { page } = useData();
  return () =>
    h(
      "p",
      { class: "markdown-link" },
      h("a", { href: withBase(`/${page.value.relativePath}`), target: "_self" }, "This page as Markdown"),
    );
});

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { "doc-footer-before": () => h(MarkdownLink) }),
  enhanceApp({ app }) {
    app.component("Diagram", Diagram);
  },
} satisfies Theme;
