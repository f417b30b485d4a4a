// URLs of a database, as libpq reads them. The tests on a server are in test/store/session.test.ts.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  completedBy,
  DatabaseUrlError,
  parseDatabaseUrl,
  printableDatabaseUrl,
} from "../../src/config/database-url.js";
import { loadConfig } from "../../src/config/index.js";

const DB = { hosts: ["db"], ports: [5432] };

describe("a URL of a database", () => {
  it.each([
    ["postgres://", {}],
    ["postgresql://db", { hosts: ["db"], ports: [5432] }],
    ["postgres://db:6543/shop", { hosts: ["db"], ports: [6543], database: "shop" }],
    ["postgres://:6543/shop", { hosts: ["localhost"], ports: [6543], database: "shop" }],
    ["postgres://ann@db/shop", { hosts: ["db"], ports: [5432], user: "ann", database: "shop" }],
    ["postgres://ann:p%40ss@db", { hosts: ["db"], ports: [5432], user: "ann", password: "p@ss" }],
    ["postgres://ann:pa#ss@db/a#b", { hosts: ["db"], ports: [5432], user: "ann", password: "pa#ss", database: "a#b" }],
    ["postgres://ann:pa?ss@db", { hosts: ["db"], ports: [5432], user: "ann", password: "pa?ss" }],
    ["postgres://ann:%E2%82%AC:x@db", { hosts: ["db"], ports: [5432], user: "ann", password: "€:x" }],
    ["postgres://[::1]/shop", { hosts: ["::1"], ports: [5432], database: "shop" }],
    ["postgres://[fe80::1%25eth0]:6543/", { hosts: ["fe80::1%eth0"], ports: [6543] }],
    ["postgres://db/my%20shop", { hosts: ["db"], ports: [5432], database: "my shop" }],
    [
      "postgres://a,b:6543,[::1]:7/x",
      { hosts: ["a", "b", "::1"], ports: [5432, 6543, 7], database: "x", targetSessionAttrs: "read-write" },
    ],
    ["postgres://u:p@db/x?dbname=&user=&password=", { hosts: ["db"], ports: [5432] }],
    ["postgres://a:1,b:2/x?target_session_attrs=read-write", { hosts: ["a", "b"], targetSessionAttrs: "read-write" }],
    ["postgres://a,b/x?target_session_attrs=any", { hosts: ["a", "b"], ports: [5432, 5432] }],
    ["postgres://a,b/x?target_session_attrs=primary", { hosts: ["a", "b"], targetSessionAttrs: "primary" }],
    // A service that writes needs the one that takes writes.
    ["postgres://a,b/x", { hosts: ["a", "b"], ports: [5432, 5432], database: "x", targetSessionAttrs: "read-write" }],
    ["postgres://db:05432/x?port=+7", { hosts: ["db"], ports: [7], database: "x" }],
    ["postgresql:///shop?host=/sockets&port=6543", { socket: "/sockets/.s.PGSQL.6543", database: "shop" }],
    ["postgres://%2Fvar%2Frun/shop", { socket: "/var/run/.s.PGSQL.5432", database: "shop" }],
    [
      "postgres://x/y?host=db&port=7&dbname=z&user=u&password=p",
      { hosts: ["db"], ports: [7], database: "z", user: "u" },
    ],
    ["postgres://?host=a,b&port=1,2", { hosts: ["a", "b"], ports: [1, 2], targetSessionAttrs: "read-write" }],
    ["postgres://?host=a,b&port=7", { hosts: ["a", "b"], ports: [7, 7], targetSessionAttrs: "read-write" }],
    ["postgres://db?options=-c%20geqo%3Doff", { options: "-c geqo=off" }],
    ["postgres://db?connect_timeout=3", { connectTimeout: 3 }],
    ["postgres://db?sslmode=disable", { ...DB, tls: { mode: "disable" } }],
    ["postgres://db?ssl=true", { ...DB, tls: { mode: "require" } }],
    ["postgres://db?sslmode=verify-full&sslrootcert=/ca.pem", { tls: { mode: "verify-full", rootCert: "/ca.pem" } }],
    ["postgres://db?sslrootcert=system", { tls: { mode: "verify-full" } }],
    ["postgres://db?client_encoding=utf8&channel_binding=prefer&keepalives=1", { hosts: ["db"] }],
  ])("%s is read part by part", (url, parts) => {
    expect(parseDatabaseUrl(url)).toMatchObject(parts);
    if (url.length < 30) expect(Object.keys(parseDatabaseUrl(url)).sort()).toEqual(Object.keys(parts).sort());
  });

  it.each([
    ["mysql://x", "must begin with postgres:// or postgresql://"],
    ["host=db dbname=x", "must begin with postgres://"],
    ["postgres://u:p@ss@db/x", "write the ones in the user name or the password as %40"],
    ["postgres://u:p/w@db/x", "a : or / in the password is written as %3A or %2F"],
    ["postgres://db:99999", "a port that is no number from 1 to 65535"],
    ["postgres://db:0", "a port that is no number from 1 to 65535"],
    ["postgres://::1/x", "an IPv6 address stands in brackets"],
    ["postgres://[::1/x", "an IPv6 address stands in brackets"],
    ["postgres://db/a%zz", "has a % in the name of the database that begins no encoded byte"],
    ["postgres://db/a%00", "has %00 in the name of the database"],
    ["postgres://a,,b", "an empty name among its hosts"],
    ["postgres://a,b?port=1,2,3", "has 2 hosts and 3 ports"],
    ["postgres://?host=/a,/b", "takes one socket, or hosts"],
    ["postgres:///x?host=@abstract", "an abstract socket"],
    ["postgres://db?service=x", "has the parameter service, which this service does not support"],
    ["postgres://db?statement_timeout=5", "is written as options=-c%20name%3Dvalue"],
    ["postgres://db?pgbouncer=true", "has the parameter pgbouncer, which"],
    ["postgres://db?constructor=true", "has the parameter constructor, which"],
    ["postgres://db?application_name=x", "the service names its sessions itself"],
    ["postgres://db?channel_binding=require", "has the parameter channel_binding with a value"],
    ["postgres://db?client_encoding=latin1", "has the parameter client_encoding with a value"],
    ["postgres://db?sslmode=on", "has an sslmode that is none of disable,"],
    ["postgres://db?sslcert=/c.pem", "has one of sslcert and sslkey"],
    ["postgres://db?sslmode=require&sslrootcert=system", "it needs verify-full"],
    ["postgres://db?target_session_attrs=leader", "none of any, read-write, primary"],
    ["postgres://a,b?target_session_attrs=standby", "the service needs a server that takes writes"],
    ["postgres://a,b?target_session_attrs=prefer-standby", "the service needs a server that takes writes"],
    ["postgres://u:%ff@db", "has a % in the password that begins no encoded byte of UTF-8"],
    ["postgres://db?user=a&user=b", "has the parameter user twice"],
    ["postgres://db?user", "has the parameter user without a value"],
    ["postgres://db?synchronous_commit=off", "has the parameter synchronous_commit"],
    ["postgres://db?options=-c%20Synchronous_Commit%3Doff", "sets synchronous_commit"],
  ])("%s is refused with what is wrong", (url, sentence) => {
    expect(() => parseDatabaseUrl(url)).toThrow(DatabaseUrlError);
    expect(() => parseDatabaseUrl(url)).toThrow(sentence);
  });

  it.each([
    ...["postgres://u:123/Secret?x@h/db", "postgres://u:pw/x?Secret123@h/db", "postgres://u:123/x?secret@h/db"],
    ...["postgres://u:123/x?secret=1@h/db", "postgres://u:123/x?a&secret=1@h/db", "postgres://u:123/x?secret=%zz@h/db"],
    ...["postgres://u:1/x?secret=1&secret=2@h/db", "postgres://u:123/secret@h/db", "postgres://u:123?secret=1@h/db/x"],
    ...["postgres://db/x?Secret123=1", "postgres://db/x?secret=p@ss&secret=1"],
  ])("%s: the sentence has nothing that may be a part of the password", (url) => {
    let sentence = "";
    try {
      sentence = printableDatabaseUrl(url);
    } catch (error) {
      sentence = (error as Error).message;
    }
    expect(sentence).not.toMatch(/secret/i);
  });

  it("gives back whatever was encoded into it", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1 }).filter((each) => !each.includes("\0"));
    fc.assert(
      fc.property(text, text, text, (user, password, database) => {
        const [u, p, d] = [user, password, database].map(encodeURIComponent);
        expect(parseDatabaseUrl(`postgres://${u}:${p}@db/${d}`)).toMatchObject({ user, password, database });
        expect(parseDatabaseUrl(`postgres://db?user=${u}&password=${p}&dbname=${d}`)).toMatchObject({
          user,
          password,
          database,
        });
      }),
    );
  });

  it.each([
    ["postgres://ann@db/x", { PGPORT: "7" }, "postgres://ann@db/x?port=7"],
    ["postgres://ann@:7/x", { PGHOST: "::1" }, "postgres://ann@:7/x?host=%3A%3A1"],
    ["postgres:///x?user=a", { PGHOST: "a,b", PGPORT: "1,2" }, "postgres:///x?user=a&host=a%2Cb&port=1%2C2"],
    ["postgres://u:pa?ss@db", { PGPORT: "7" }, "postgres://u:pa?ss@db?port=7"],
    ["postgres:///x?", { PGHOST: "/sockets" }, "postgres:///x?host=%2Fsockets"],
    ["postgres://db:5432/x", { PGHOST: "other", PGPORT: "7" }, "postgres://db:5432/x"],
    ["postgres://x?host=db&port=5432", { PGHOST: "other", PGPORT: "7" }, "postgres://x?host=db&port=5432"],
    ["postgres://a,b/x", { PGHOST: "other", PGPORT: "7" }, "postgres://a,b/x"],
    ["postgres://db/x", { PGHOST: "", PGPORT: "", PGSSLMODE: "", PGOPTIONS: "" }, "postgres://db/x"],
    ["postgres://db/x", { PGSSLMODE: "require" }, "postgres://db/x?sslmode=require"],
    ["postgres://db/x?sslmode=disable", { PGSSLMODE: "require" }, "postgres://db/x?sslmode=disable"],
    ["postgres://db/x?ssl=true", { PGSSLMODE: "disable" }, "postgres://db/x?ssl=true"],
    [
      "postgres://db/x?sslcert=/c.pem",
      { PGSSLMODE: "verify-full", PGSSLROOTCERT: "/ca.pem", PGSSLCERT: "/other.pem", PGSSLKEY: "/k.pem" },
      "postgres://db/x?sslcert=/c.pem&sslmode=verify-full&sslrootcert=%2Fca.pem&sslkey=%2Fk.pem",
    ],
    ["postgres://db/x", { PGOPTIONS: "-c geqo=off" }, "postgres://db/x?options=-c%20geqo%3Doff"],
    ["postgres://db/x?options=-c%20a.b%3D1", { PGOPTIONS: "-c geqo=off" }, "postgres://db/x?options=-c%20a.b%3D1"],
    [
      "postgres://a,b/x",
      { PGCONNECT_TIMEOUT: "3", PGTARGETSESSIONATTRS: "primary" },
      "postgres://a,b/x?connect_timeout=3&target_session_attrs=primary",
    ],
  ])("%s with %o leaves to the environment what it does not name", (url, environment, completed) => {
    expect(completedBy(environment, url).url).toBe(completed);
    expect(() => parseDatabaseUrl(completed)).not.toThrow();
    expect(completedBy(environment, completed)).toEqual({ url: completed, variables: [] });
  });

  it.each([
    [
      "postgres://db/x",
      { PGSSLMODE: "on" },
      "DATABASE_URL with PGSSLMODE of the environment has an sslmode that is none of",
    ],
    [
      "postgres://db/x",
      { PGOPTIONS: "-c synchronous_commit=off" },
      "DATABASE_URL with PGOPTIONS of the environment sets synchronous_commit",
    ],
    ["postgres://db/x", { PGPORT: "x" }, "DATABASE_URL with PGPORT of the environment has a port that is no number"],
    ["postgres://db/x?sslmode=on", { PGPORT: "7" }, "DATABASE_URL has an sslmode that is none of"],
    [
      "postgres://db/x?sslrootcert=system",
      { PGSSLMODE: "require" },
      "DATABASE_URL with PGSSLMODE of the environment has the sslrootcert system with an sslmode that",
    ],
  ])("%s with %o is refused in the name of what is wrong", (url, environment, sentence) => {
    expect(() => loadConfig({ DATABASE_URL: url, ...environment })).toThrow(sentence);
  });

  it("is printed without its password and its parameters", () => {
    const url = "postgres://ann:hunter2@a:1,[::1]:2/shop?password=hunter2&options=-c%20x%3Dhunter2";
    expect(printableDatabaseUrl(url)).toBe("postgres://ann:[redacted]@a:1,[::1]:2/shop");
    expect(printableDatabaseUrl("postgres:///x?host=/s")).toBe("postgres:///s/.s.PGSQL.5432/x");
  });
});
