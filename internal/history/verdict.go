package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is what came of a history.
type Verdict struct {
	Families  int
	Ops       int
	Undecided []string // families for which the time was not enough
	Failures  []*Failure
}

// Failure is a family of streams whose history no order explains.
type Failure struct {
	Family string
	Ops    []*Op
	info   porcupine.LinearizationInfo
}

// Check looks for an order of the operations, family by family, each for no longer
// than limit.
func Check(ops []*Op, limit time.Duration) *Verdict {
	v := &Verdict{}
	all := families(ops)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list := all[name]
		v.Families++
		v.Ops += len(list)
		switch porcupine.CheckOperationsTimeout(model(), operations(list), limit) {
		case porcupine.Illegal:
			_, info := porcupine.CheckOperationsVerbose(model(), operations(list), limit)
			v.Failures = append(v.Failures, &Failure{Family: name, Ops: list, info: info})
		case porcupine.Unknown:
			v.Undecided = append(v.Undecided, name)
		}
	}
	return v
}

// operations gives a family's history as porcupine takes it.
func operations(list []*Op) []porcupine.Operation {
	last := int64(0)
	for _, op := range list {
		last = max(last, op.Call, op.Return)
	}
	out := make([]porcupine.Operation, len(list))
	for i, op := range list {
		end := op.Return
		if end == 0 {
			end = last + 1
		}
		out[i] = porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end}
	}
	return out
}

// Err gives all failures as one error that tells where their files are, nil if
// there are none. How says how to get the same history again.
func (v *Verdict) Err(how string) error {
	if len(v.Failures) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "ds-history-")
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, f := range v.Failures {
		file := filepath.Join(dir, strings.Trim(strings.ReplaceAll(f.Family, "/", "-"), "-"))
		fmt.Fprintf(&b, "%s\n", f)
		if err := f.save(file, how); err != nil {
			fmt.Fprintf(&b, "not written: %v\n", err)
			continue
		}
		fmt.Fprintf(&b, "to look at: %s.html\nto check again: DS_HISTORY=%s.json go test ./internal/history -run TestAgain -v\n", file, file)
		if i == 2 && len(v.Failures) > 3 {
			fmt.Fprintf(&b, "and %d more families\n", len(v.Failures)-3)
			break
		}
	}
	return fmt.Errorf("%d of %d families have no order that explains their answers\n%s%s", len(v.Failures), v.Families, &b, how)
}

// saved is a family's history in a file.
type saved struct {
	How string `json:"how"`
	Ops []*Op  `json:"ops"`
}

func (f *Failure) save(file, how string) error {
	b, err := json.MarshalIndent(saved{How: how, Ops: f.Ops}, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".json", b, 0o644); err != nil {
		return err
	}
	return porcupine.VisualizePath(model(), f.info, file+".html")
}

// Load reads a history that was written because of a failure.
func Load(file string) (how string, ops []*Op, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	var s saved
	if err := json.Unmarshal(b, &s); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	return s.How, s.Ops, nil
}

// String tells how far the best order came.
func (f *Failure) String() string {
	var best []porcupine.Operation
	for _, partition := range f.info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	placed := map[*Op]bool{}
	state := worlds{{}}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: of %d operations %d can be put in order", f.Family, len(f.Ops), len(best))
	for i, o := range best {
		op := o.Input.(*Op)
		placed[op] = true
		state = state.step(op)
		if i >= len(best)-5 {
			fmt.Fprintf(&b, "\n  %4d  client %d: %s", i, op.Client, op)
		}
	}
	fmt.Fprintf(&b, "\nthen there is %s\nand none of these can be next:", state)
	rest := slices.DeleteFunc(slices.Clone(f.Ops), func(op *Op) bool { return placed[op] })
	first := int64(1<<63 - 1)
	for _, op := range rest {
		if op.Return != 0 {
			first = min(first, op.Return)
		}
	}
	shown := 0
	for _, op := range rest {
		if op.Call <= first && shown < 12 {
			shown++
			fmt.Fprintf(&b, "\n        client %d: %s", op.Client, op)
		}
	}
	return b.String()
}

// String shows the streams of all worlds.
func (ws worlds) String() string {
	var list []string
	for _, w := range ws {
		list = append(list, w.String())
	}
	return strings.Join(list, " or ")
}

func (w *world) String() string {
	var list []string
	for _, path := range slices.Sorted(maps.Keys(w.at)) {
		list = append(list, path+" "+w.at[path].String())
	}
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

func (e *entry) String() string {
	const tail = 24
	s := fmt.Sprintf("[%d bytes …%s", e.text.len(), Bytes(e.text.from(max(0, e.text.len()-tail))).runs())
	for _, p := range e.last {
		s += fmt.Sprintf(" %v", &p)
	}
	for word, set := range map[string]bool{" closed": e.closed, " deleted": e.deleted} {
		if set {
			s += word
		}
	}
	if e.forks > 0 {
		s += fmt.Sprintf(" %d forks", e.forks)
	}
	if e.seq != "" {
		s += " seq " + e.seq
	}
	return s + "]"
}
