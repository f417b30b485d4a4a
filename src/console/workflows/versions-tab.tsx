// The versions of a workflow, and what two of them differ in. Which two is in the address.
import type { ReactNode } from "react";
import { Link } from "wouter";
import { numberIn, useAddress, useHref } from "../browser/address.js";
import { useInView } from "../browser/in-view.js";
import type { Workflow } from "../browser/resources.js";
import { useDocument } from "../browser/versions.js";
import { type StepNames, stepNames } from "../graph/names.js";
import { Answer } from "../parts/notes.js";
import { Scroll } from "../parts/scroll.js";
import { Json } from "../parts/values.js";
import { Versions } from "../parts/versions.js";
import { type Change, type Difference, difference, isSame, type Step } from "./difference.js";

export default function VersionsTab({ workflow: { id, version } }: { workflow: Workflow }) {
  const href = useHref();
  const [parameters] = useAddress();
  const other = numberIn(parameters, "compare");
  const more = (one: number) =>
    one !== version && (
      <Link href={href({ compare: one, version })} aria-current={one === other ? "true" : undefined}>
        Compare<span className="hidden"> version {one}</span> with version {version}
      </Link>
    );
  return (
    <>
      <Versions collection="workflows" id={id} shown={version} more={more} />
      {other !== undefined && <Comparison id={id} before={Math.min(other, version)} after={Math.max(other, version)} />}
    </>
  );
}

function Comparison({ id, before, after }: { id: string; before: number; after: number }) {
  const from = useDocument<Workflow>("workflows", id, before);
  const to = useDocument<Workflow>("workflows", id, after);
  const shown = useInView<HTMLElement>(`${before} ${after}`);
  return (
    <section ref={shown} aria-labelledby="difference">
      <h2 id="difference">
        From version {before} to version {after}
      </h2>
      <Answer of={from}>
        {(from) => (
          <Answer of={to}>
            {(to) => <Shown of={difference(from, to)} names={[stepNames(from.steps), stepNames(to.steps)]} />}
          </Answer>
        )}
      </Answer>
    </section>
  );
}

interface ShownProps {
  readonly of: Difference;
  /** What the steps are called before and after. */
  readonly names: readonly [before: StepNames, after: StepNames];
}

/** The title, by which a person knows the step, and the id, by which a definition does. */
function titleOf(id: string, names: StepNames): string {
  const name = names.get(id) ?? id;
  return name === id ? id : `${name} (${id})`;
}

function Shown({ of, names: [before, after] }: ShownProps) {
  if (isSame(of)) return <p>The two versions say the same.</p>;
  const { members, added, removed, changed } = of;
  return (
    <div className="difference">
      {members.length > 0 && (
        <Part title="The document changed" tone="changed">
          <Changes of={members} />
        </Part>
      )}
      {added.map((step) => (
        <WholeStep key={String(step.id)} word="added" step={step} names={after} />
      ))}
      {removed.map((step) => (
        <WholeStep key={String(step.id)} word="removed" step={step} names={before} />
      ))}
      {changed.map(({ id, changes }) => (
        <Part key={id} title={`Step ${titleOf(id, after)} changed`} tone="changed">
          <Changes of={changes} />
        </Part>
      ))}
    </div>
  );
}

function Part({
  title,
  tone,
  children,
}: {
  title: string;
  tone: "added" | "removed" | "changed";
  children: ReactNode;
}) {
  return (
    <section className={`card ${tone}`} aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function WholeStep({ word, step, names }: { word: "added" | "removed"; step: Step; names: StepNames }) {
  const title = `Step ${titleOf(String(step.id), names)} ${word}`;
  return (
    <Part title={title} tone={word}>
      <Json value={step} label={`${title}: its definition`} />
    </Part>
  );
}

function Changes({ of }: { of: readonly Change[] }) {
  return (
    <Scroll label="Changed members">
      <table>
        <thead>
          <tr>
            <th scope="col">Member</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {of.map((change) => (
            <tr key={change.path}>
              <td>
                <code>{change.path}</code>
              </td>
              <td>{"before" in change ? <Value word="del" of={change.before} /> : <Nothing />}</td>
              <td>{"after" in change ? <Value word="ins" of={change.after} /> : <Nothing />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

const Nothing = () => <span className="quiet">absent</span>;

function Value({ word: Word, of }: { word: "del" | "ins"; of: unknown }) {
  return (
    <Word>
      <pre>{JSON.stringify(of, null, 2)}</pre>
    </Word>
  );
}
