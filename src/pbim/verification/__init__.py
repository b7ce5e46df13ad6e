"""Proof or counterexample: did F' cancel, is the set of optimal policies the same?"""

from pbim.verification.certificate import (
    Certificate as Certificate,
    CertificateReport as CertificateReport,
    CertificateState as CertificateState,
    residuals as residuals,
)
