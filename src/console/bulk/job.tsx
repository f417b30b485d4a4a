export default function Page() {
  return <h1>bulk job</h1>;
}
