// A sentence of the service as a page shows it: its moments in the zone of the page, the runs that it names as links, and the steps by the names
// that the page has for them.
import { Fragment } from "react";
import { Link, useLocation } from "wouter";
import { inZone } from "./clock.js";

/** A worker may have such an id, too. */
const RUN_ID = /(?<!worker |[\w-])([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![\w-])/;

/** As the service writes a step in a sentence. An id has no space. */
const STEP = /\bthe step ([^\s,:;()]+)/g;

const named = (text: string, names: ReadonlyMap<string, string> | undefined): string =>
  text.replace(STEP, (whole, id: string) => {
    const name = names?.get(id) ?? id;
    return name === id ? whole : `the step “${name}”`;
  });

/** `names`: of the steps that the sentence may name. A run whose page this is has no link. */
export function Sentence({ text, names }: { text: string; names?: ReadonlyMap<string, string> | undefined }) {
  const [location] = useLocation();
  const parts = named(inZone(text), names).split(RUN_ID);
  return (
    <>
      {parts.map((part, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a part is nothing but its place
        <Fragment key={nth}>
          {nth % 2 === 1 && location !== `/runs/${part}` ? <Link href={`/runs/${part}`}>{part}</Link> : part}
        </Fragment>
      ))}
    </>
  );
}
