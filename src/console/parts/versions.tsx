// The versions of a workflow or a rule as a table, with what publishes one and withdraws it. The documents themselves are on their pages.
import type { ReactNode } from "react";
import { Link } from "wouter";
import { useMay } from "../browser/access.js";
import { useHref } from "../browser/address.js";
import type { List } from "../browser/resources.js";
import { type Collection, type Publishing, usePublishing, useVersions, type Versioned } from "../browser/versions.js";
import { Answer, Refused } from "./notes.js";
import { Pager, useOffset } from "./pager.js";
import { When } from "./values.js";
import "./fields.css";
import { Scroll } from "./scroll.js";

export const Published = ({ is }: { is: boolean }) => (
  <span className={`state ${is ? "succeeded" : ""}`}>{is ? "published" : "draft"}</span>
);

interface VersionsProps {
  readonly collection: Collection;
  readonly id: string;
  /** The version that the page shows. */
  readonly shown?: number | undefined;
  /** A further cell of each version. */
  readonly more?: (version: number) => ReactNode;
}

export function Versions(props: VersionsProps) {
  const { collection, id } = props;
  const versions = useVersions(collection, id, useOffset("versions"));
  const publishing = usePublishing(collection, id);
  return (
    <Answer of={versions}>
      {(page) => (
        <>
          {publishing.error && <Refused error={publishing.error} />}
          <Table {...props} page={page} isBusy={publishing.isPending} publish={publishing.mutate} />
          <Pager of={page} name="versions" label="versions" />
        </>
      )}
    </Answer>
  );
}

interface TableProps extends VersionsProps {
  readonly page: List<Versioned>;
  readonly isBusy: boolean;
  readonly publish: (publishing: Publishing) => void;
}

function Table({ page, ...rest }: TableProps) {
  return (
    <Scroll label="Versions">
      <table>
        <thead>
          <tr>
            <th scope="col">Version</th>
            <th scope="col">Published</th>
            <th scope="col">Stored</th>
            <th scope="col">By</th>
            <th scope="col">
              <span className="hidden">Acts</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {page.items.map((item) => (
            <Row key={item.version} item={item} {...rest} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

const PUBLISHING = {
  workflows: { publish: "publishWorkflow", withdraw: "unpublishWorkflow" },
  rules: { publish: "publishRule", withdraw: "unpublishRule" },
} as const;

function Row({ collection, item, shown, more, isBusy, publish }: Omit<TableProps, "page"> & { item: Versioned }) {
  const { version, published } = item;
  const may = useMay();
  return (
    <tr>
      <td>
        <VersionLink version={version} isShown={version === shown} />
      </td>
      <td>
        <Published is={published} />
      </td>
      <td>
        <When at={item.created_at} />
      </td>
      <td>{item.created_by ?? <span className="quiet">–</span>}</td>
      <td className="acts">
        {may(PUBLISHING[collection][published ? "withdraw" : "publish"]) && (
          <button type="button" disabled={isBusy} onClick={() => publish({ version, published: !published })}>
            {published ? "Unpublish" : "Publish"}
            <span className="hidden"> version {version}</span>
          </button>
        )}
        {more?.(version)}
      </td>
    </tr>
  );
}

function VersionLink({ version, isShown }: { version: number; isShown: boolean }) {
  const href = useHref();
  return (
    <Link href={href({ version })} aria-current={isShown ? "true" : undefined}>
      Version {version}
    </Link>
  );
}
