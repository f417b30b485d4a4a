// A Mermaid diagram, drawn in the browser in the colours of the page. Before that, and without scripts, its source stands there as text.
import mermaidUrl from "@mermaid-js/tiny/dist/mermaid.tiny.js?url";
import { useData } from "vitepress";
import { defineComponent, h, onMounted, ref, watch } from "vue";

interface Mermaid {
  initialize(options: object): void;
  render(id: string, source: string): Promise<{ readonly svg: string }>;
}

let loading: Promise<Mermaid> | undefined;

/** It is a script for the page, not a module: it leaves itself as a global. */
function loaded(): Promise<Mermaid> {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = mermaidUrl;
    script.onload = () => resolve((globalThis as unknown as { mermaid: Mermaid }).mermaid);
    script.onerror = () => reject(new Error(`${mermaidUrl} cannot be loaded`));
    document.head.append(script);
  });
  return loading;
}

/** Text of a size that can be read: a wide diagram is scrolled. */
const NATURAL_SIZE = { useMaxWidth: false, wrappingWidth: 360 };

let drawn = 0;

export const Diagram = defineComponent({
  props: { source: { type: String, required: true } },
  setup({ source }) {
    const { isDark } = useData();
    const text = decodeURIComponent(source);
    const picture = ref("");
    const draw = async () => {
      const mermaid = await loaded();
      const theme = isDark.value ? "dark" : "neutral";
      mermaid.initialize({ startOnLoad: false, theme, fontFamily: "system-ui, sans-serif", flowchart: NATURAL_SIZE });
      picture.value = (await mermaid.render(`diagram-${++drawn}`, text)).svg;
    };
    onMounted(() => {
      watch(isDark, draw, { immediate: true });
    });
    return () =>
      picture.value === ""
        ? h("pre", { class: "diagram" }, text)
        : h("div", {
            class: "diagram",
            role: "region",
            "aria-label": "Diagram",
            tabindex: 0,
            innerHTML: picture.value,
          });
  },
});
