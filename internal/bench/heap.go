package bench

// alarm is a moment at which a connection wants to be asked again.
type alarm struct {
	due  int64
	conn int
}

// alarms is a binary heap with the earliest alarm at its root.
type alarms []alarm

func (h *alarms) push(a alarm) {
	s := append(*h, a)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent].due <= s[i].due {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
	*h = s
}

// pop removes the earliest alarm; there must be one.
func (h *alarms) pop() alarm {
	s := *h
	first := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s[child+1].due < s[child].due {
			child++
		}
		if s[i].due <= s[child].due {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	*h = s
	return first
}
