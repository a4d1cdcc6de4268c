package bench

// outcome is what is known about a request without a good answer.
type outcome uint8

const (
	acknowledged outcome = iota
	refused              // 4xx: the server promises that nothing happened
	doubtful             // 5xx, no answer: it may have happened, once
)

// outcomeOf tells what a status that is not a success promises.
func outcomeOf(status int) outcome {
	if status >= 400 && status < 500 {
		return refused
	}
	return doubtful
}

// ledger is what one connection asked for, and how it ended.
type ledger struct {
	sent int64             // requests 0 to sent-1 were sent
	odd  map[int64]outcome // those that were not acknowledged
}

// note keeps how a request ended. What is once in doubt stays so until it is
// acknowledged, whatever a repetition is told.
func (l *ledger) note(seq int64, o outcome) {
	if o == acknowledged {
		delete(l.odd, seq)
		return
	}
	if l.odd[seq] == doubtful {
		return
	}
	if l.odd == nil {
		l.odd = map[int64]outcome{}
	}
	l.odd[seq] = o
}

func (l *ledger) outcome(seq int64) outcome { return l.odd[seq] }

// Verification is what reading everything back found.
type Verification struct {
	Streams      int64    `json:"streams"`
	Records      int64    `json:"records"`
	Acknowledged int64    `json:"acknowledged"`
	Doubtful     int64    `json:"doubtful_present"` // there, though their answers were lost: allowed, once
	Lost         int64    `json:"lost"`             // acknowledged and not there
	Doubled      int64    `json:"doubled"`
	Reordered    int64    `json:"reordered"`  // after a later one of the same connection
	Refused      int64    `json:"refused"`    // there, though refused with 4xx
	Alien        int64    `json:"alien"`      // bytes that are no record of this run and stream
	Unreadable   int64    `json:"unreadable"` // streams whose reading failed
	First        []string `json:"first,omitempty"`
}

// violations is the number of broken promises.
func (v *Verification) violations() int64 {
	return v.Lost + v.Doubled + v.Reordered + v.Refused + v.Alien + v.Unreadable
}

func (v *Verification) add(o *Verification) {
	v.Streams += o.Streams
	v.Records += o.Records
	v.Acknowledged += o.Acknowledged
	v.Doubtful += o.Doubtful
	v.Lost += o.Lost
	v.Doubled += o.Doubled
	v.Reordered += o.Reordered
	v.Refused += o.Refused
	v.Alien += o.Alien
	v.Unreadable += o.Unreadable
	v.First = append(v.First, o.First...)
	v.First = v.First[:min(len(v.First), maxFindings)]
}

// maxFindings bounds how many violations are told one by one.
const maxFindings = 8

func (v *Verification) tell(finding string) {
	if len(v.First) < maxFindings {
		v.First = append(v.First, finding)
	}
}
