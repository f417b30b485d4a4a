// The title of the browser's tab: many tabs of the console are told apart by it. The page that is open sets it.
import { useEffect } from "react";

const SERVICE = "Sagas";

/** The most particular part first: a tab shows the beginning. Parts that are not known yet are left out. */
export function useTitle(...parts: readonly (string | undefined)[]): void {
  const title = [...parts.filter((part) => part !== undefined && part !== ""), SERVICE].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
