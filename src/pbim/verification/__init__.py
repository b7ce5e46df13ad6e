"""Proof or counterexample: did F' cancel, is the set of optimal policies the same?"""

from pbim.verification.audit_report import AuditReport as AuditReport, Coverage as Coverage
from pbim.verification.auditor import audit as audit
from pbim.verification.certificate import (
    Certificate as Certificate,
    CertificateReport as CertificateReport,
    CertificateState as CertificateState,
    residuals as residuals,
)
from pbim.verification.episodes import EpisodesReport as EpisodesReport, certify_episodes as certify_episodes
from pbim.verification.fold import Fold as Fold
from pbim.verification.mdp import FiniteMDP as FiniteMDP
from pbim.verification.procrastination import (
    procrastination_map as procrastination_map,
    stalling_gain as stalling_gain,
    stalling_pays as stalling_pays,
    visits_worth_stalling as visits_worth_stalling,
)
from pbim.verification.report import (
    Assumption1 as Assumption1,
    Counterexample as Counterexample,
    Course as Course,
    Report as Report,
)
from pbim.verification.verifier import verify as verify
from pbim.verification.witness import Step as Step, Task as Task, Way as Way, Witness as Witness
