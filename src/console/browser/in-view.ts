// Scrolls a panel that a click has opened into view. A panel that is visible already does not move.
import { type RefObject, useEffect, useRef } from "react";

/** `key`: what is opened. Another one is another reason to look; undefined: nothing is. */
export function useInView<E extends HTMLElement>(key: unknown): RefObject<E | null> {
  const element = useRef<E>(null);
  useEffect(() => {
    if (key === undefined) return;
    const { top, bottom } = element.current?.getBoundingClientRect() ?? { top: 0, bottom: 0 };
    if (top < 0 || (bottom > window.innerHeight && top > window.innerHeight / 2)) element.current?.scrollIntoView();
  }, [key]);
  return element;
}
