//! The place of a job in an array, as its jobspec has it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::JobId;
use crate::jobspec::{JobspecError, path};

/// Where Slurm's plugins and scripts read the index of an element.
const INDEX: &str = "attributes.system.slurm.array_task_id";

/// Where they read the id of its array.
const ARRAY: &str = "attributes.system.slurm.array_job_id";

/// The place of a job in a job array.
///
/// ```
/// use jobtap_core::array::Element;
/// use jobtap_core::job::JobId;
/// use serde_json::json;
///
/// let slurm = json!({"array_job_id": 7, "array_task_id": 3});
/// let jobspec = json!({"attributes": {"system": {"slurm": slurm}}});
/// assert_eq!(Element::of(&jobspec), Some(Element { array: JobId::new(7), index: 3 }));
/// assert_eq!(Element::of(&json!({})), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// The array's id.
    pub array: JobId,
    /// The job's index in it.
    pub index: u32,
}

impl Element {
    /// The place that a jobspec names, if its job is an element of an array.
    #[must_use]
    pub fn of(jobspec: &Value) -> Option<Self> {
        let number = |place: &str| path::get(jobspec, place).and_then(Value::as_u64);
        let (array, index) = (number(ARRAY)?, number(INDEX)?);
        Some(Self { array: JobId::new(array), index: u32::try_from(index).ok()? })
    }

    /// Writes the place into a jobspec.
    ///
    /// # Errors
    /// [`JobspecError`] if the jobspec has no room for it.
    pub fn put(self, jobspec: &mut Value) -> Result<(), JobspecError> {
        path::set(jobspec, ARRAY, self.array.as_u64().into())?;
        path::set(jobspec, INDEX, self.index.into())
    }
}
