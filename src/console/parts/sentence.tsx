// A sentence of the service as a page shows it: its moments in the zone of the page, the runs that it names as links.
import { Fragment } from "react";
import { Link } from "wouter";
import { inZone } from "./clock.js";

/** A worker may have such an id, too. */
const RUN_ID = /(?<!worker |[\w-])([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![\w-])/;

export function Sentence({ text }: { text: string }) {
  const parts = inZone(text).split(RUN_ID);
  return (
    <>
      {parts.map((part, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a part is nothing but its place
        <Fragment key={nth}>{nth % 2 === 1 ? <Link href={`/runs/${part}`}>{part}</Link> : part}</Fragment>
      ))}
    </>
  );
}
