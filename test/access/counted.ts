// A pool that counts the statements that are sent through it.
import type { Sql } from "postgres";

export interface CountedSql {
  readonly sql: Sql;
  readonly count: () => number;
}

export function counted(sql: Sql): CountedSql {
  let statements = 0;
  const count = () => {
    statements++;
  };
  const counting = new Proxy(sql, {
    apply(target, self, parameters) {
      count();
      return Reflect.apply(target, self, parameters);
    },
    get(target, name) {
      if (name === "unsafe") count();
      return Reflect.get(target, name);
    },
  });
  return { sql: counting, count: () => statements };
}
