import { PageHead } from '../ui/basics';
export default function Sandboxes() {
  return (
    <div class="page">
      <PageHead title="Sandboxes" />
    </div>
  );
}
