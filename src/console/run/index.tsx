export default function Page() {
  return <h1>run index</h1>;
}
