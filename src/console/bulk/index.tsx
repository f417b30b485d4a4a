export default function Page() {
  return <h1>bulk index</h1>;
}
