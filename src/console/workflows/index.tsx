export default function Page() {
  return <h1>workflows index</h1>;
}
