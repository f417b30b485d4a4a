// How wide the page is, for what a style cannot decide: the height of rows that are drawn as far as they are seen, the marks of an axis.
import { type RefObject, useEffect, useState, useSyncExternalStore } from "react";

/** The width at which the styles change. */
const narrow = () => matchMedia("(max-width: 45rem)");

function subscribe(onChange: () => void): () => void {
  const query = narrow();
  query.addEventListener("change", onChange);
  return () => query.removeEventListener("change", onChange);
}

export const useIsNarrow = (): boolean => useSyncExternalStore(subscribe, () => narrow().matches);

/** The width of an element in pixels; 0 until it is drawn. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const { current } = element;
    if (!current) return;
    const watch = new ResizeObserver(() => setWidth(current.clientWidth));
    watch.observe(current);
    return () => watch.disconnect();
  }, [element]);
  return width;
}
